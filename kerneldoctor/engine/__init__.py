"""Facts and rules in, findings out. Pure: no look at the machine, no network, no clock."""
