//! The key that answers are planned with, and that may be replaced while others are planned.

use std::sync::{Arc, PoisonError, RwLock};

use crate::message::FingerprintKey;

/// A key that a handler and whoever renews it share. Cheap to clone.
///
/// An answer is planned with one key from its beginning to its end; those planned after a
/// [`replace`](Self::replace) have the new one.
#[derive(Clone, Debug)]
pub struct CurrentKey(Arc<RwLock<FingerprintKey>>);

impl CurrentKey {
    pub(super) fn new(key: FingerprintKey) -> Self {
        Self(Arc::new(RwLock::new(key)))
    }

    /// The key of an answer that is planned now.
    pub(super) fn get(&self) -> FingerprintKey {
        // A key is replaced whole: a panic cannot leave half of one.
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another one in its place.
    pub fn replace(&self, key: FingerprintKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = key;
    }
}
