"""VPO on other engines, through their public APIs. Each module needs its own optional package."""
