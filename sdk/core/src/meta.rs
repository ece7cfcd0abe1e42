//! Metadata codecs: the registry's cluster, topic and group nodes, in ZMS's `.properties` text and in JSON.
