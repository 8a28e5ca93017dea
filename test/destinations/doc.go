// Package destinations sends to programs that vendors ship, compiled from the modules that test/vendors pins:
// Prometheus' Alertmanager, and the OTLP receiver of OpenTelemetry's collector. The tests read the received data from
// the programs themselves.
package destinations
