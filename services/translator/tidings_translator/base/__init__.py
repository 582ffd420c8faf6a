"""What every part of the stages uses: settings, records, names, metrics, errors."""
