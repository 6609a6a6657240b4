// Package upgrade runs programs of an earlier release and today's in one deployment, in each order, with sessions that
// have open calls and approvals at that time. Its tests have the build tag upgrade; .ci/run upgrade runs them.
package upgrade
