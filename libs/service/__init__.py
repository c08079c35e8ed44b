"""The service defaults: what starts, stops and reports every service the same way."""
