//! Played against a model.
