"""Classifiers trained on public points and released labels, at no further privacy cost."""

from mechanisms.students.network import NetworkStudent, Student

__all__ = ["NetworkStudent", "Student"]
