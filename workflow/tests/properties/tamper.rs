//! The checkers are no decoration.

pub fn every_fault_is_reported() {}
