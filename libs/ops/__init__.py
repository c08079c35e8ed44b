"""What lets people see a service: metrics, traces, logs, health; every service gets all of it the same way."""
