//! List and watch of one resource as a stream of trimmed objects.
