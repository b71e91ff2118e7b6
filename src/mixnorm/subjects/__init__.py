"""Many subjects: joint fits, baselines, and adaptation to a new subject."""
