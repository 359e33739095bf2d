"""Special functions, quadrature and searches; no privacy in here."""
