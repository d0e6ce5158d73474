"""The only place that knows gRPC: each call is checked, made and answered here, a file per service."""
