"""The words the whole house speaks: identifiers, errors, settings. Pure."""
