"""VPO on other engines, through their public doors. Each module needs its own optional package."""
