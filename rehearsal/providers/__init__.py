"""Stand-in provider plugins: the gRPC server that every one of them shares, and one folder a cloud."""
