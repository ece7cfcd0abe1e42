//! What of an assigned partition was delivered, is done, and may be committed.
