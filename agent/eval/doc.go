// Package eval runs suites of cases and checks them: what an agent does with a prompt or with a recorded session, how
// often it does that, and whether it did better before.
//
// The one idea: a result is a session, and a check reads its journal. The ID of a session follows from what it runs (its
// case, model, prompt, agent and the number of its repeat), so a suite that starts again takes the sessions that it has and
// runs the rest, and other checks of the same sessions run nothing.
//
// A case is a new conversation, one that continues a session as a fork, or a journal that package replay runs
// again with its recorded results. The first two are sessions of a deployment. A replay is in memory: [Config.Journals] keeps it.
//
// A case passes if enough of its repeats pass all of its checks. Rates have the 95 % score interval of Wilson, and differences
// of rates that of Newcombe: see [Rate]. A [Report] is compared with an earlier one, its baseline: see [Report.Compare].
package eval
