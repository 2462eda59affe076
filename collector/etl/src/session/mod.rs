//! Records become events of the model.
