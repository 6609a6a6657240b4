// Package eval runs suites of cases and checks the results: what an agent does with a prompt or a recorded session,
// how often it succeeds, and whether it did better before.
//
// A result is a session, and a check reads its journal. The ID of a session is computed from what it runs (case, model,
// prompt, agent and number of the repeat). So a suite that starts again reuses the sessions that exist and runs the
// rest, and new checks of the same sessions run nothing.
//
// A case is a new conversation, a conversation that continues a session as a fork, or a journal that package replay
// runs again with its recorded results. The first two are sessions of a deployment. A replay is in memory:
// [Config.Journals] keeps it.
//
// A case passes if enough of its repeats pass all of its checks. Rates have Wilson's 95 % score interval, and
// differences of rates have Newcombe's: see [Rate]. A [Report] is compared with an earlier one, its baseline: see
// [Report.Compare].
package eval
