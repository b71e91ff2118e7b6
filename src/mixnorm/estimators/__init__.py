"""scikit-learn estimators for one subject, and their common parts: inputs, weights, folds, model files."""
