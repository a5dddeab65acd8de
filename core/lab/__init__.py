"""The lab: running presets, comparing, experimenting, evaluating; each part with a handle for its own thing alone."""
