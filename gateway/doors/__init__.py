"""What every door in front of a cluster has: settings, options, TLS, tokens, descriptors, beginning and end."""
