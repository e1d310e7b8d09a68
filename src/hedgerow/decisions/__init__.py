"""Accept, review, reject: thresholds with guarantees."""
