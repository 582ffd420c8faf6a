"""Query sources under faults: databases, traffic, schedules and the verdict."""
