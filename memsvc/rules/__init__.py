"""Every decision of the daemon, pure: values in, values out; no await, no clock, no I/O, no logging."""
