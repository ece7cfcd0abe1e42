//! Checks numbered messages for loss, duplicates and reordering.
