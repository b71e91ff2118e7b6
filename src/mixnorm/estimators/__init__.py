"""scikit-learn estimators for one subject, and what they share: inputs, weights, folds, model files."""
