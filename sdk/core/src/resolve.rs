//! From nodes to routes: gray release, clusters, migration record, adopted together.
