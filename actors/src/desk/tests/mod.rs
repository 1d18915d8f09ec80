//! The desk as its users see it.
