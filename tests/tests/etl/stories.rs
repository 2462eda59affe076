//! Stories of a fake logger, told again as text.
