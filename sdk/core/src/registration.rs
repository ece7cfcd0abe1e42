//! Names and data of the znodes by which live clients are seen, in ZMS's form.
