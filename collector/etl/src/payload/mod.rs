//! What records say, by class.
