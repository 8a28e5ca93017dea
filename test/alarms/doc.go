// Package alarms tests the alarms of config/monitoring/rules.yaml: each one fires for what it is about, and for nothing else.
package alarms
