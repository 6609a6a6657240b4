// Package monitoring checks the dashboard and the alert rules in docs/monitoring against what the processes of a deployment
// export.
package monitoring
