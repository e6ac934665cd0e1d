//! Values that messages and records leave out.

/// Whether a value is the default of its type.
#[must_use]
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
