"""Durable state on this machine: sessions, bundles, channels and blobs behind the `Store` port."""
