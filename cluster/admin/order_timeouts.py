"""Default timeouts of orders in seconds, which the help of each command names."""

SNAPSHOT_TIMEOUT_S = 60.0
TRANSFER_TIMEOUT_S = 10.0
SUSPEND_TIMEOUT_S = 10.0
MEMBERSHIP_TIMEOUT_S = 10.0
QUERY_TIMEOUT_S = 5.0
SKIP_TIMEOUT_S = 30.0
UPGRADE_TIMEOUT_S = 30.0
