"""Options of the student that learns the released labels."""

from __future__ import annotations

import argparse

import accountant as ac

__all__ = ["add_student"]


def add_student(parser: argparse.ArgumentParser) -> None:
    """Add ``--student`` and the options of a convolutional one."""
    add = parser.add_argument
    add("--student", default="network", choices=("network", "conv"), help="conv: a PyTorch network, for images")
    text = "conv: adversarial changes (vat, default) or strong random ones (uda)"
    add("--consistency", choices=("vat", "uda"), help=text)
    text = "conv: the papers' for grey and colour images (default), or three layers as for CIFAR-10"
    add("--student-network", choices=("paper", "32-64-128"), help=text)
    add("--student-epochs", type=ac.terminal.whole, help="conv: passes over the public images (default 100)")
    add("--device", metavar="DEVICE", help="conv: cpu (default), cuda, cuda:0 or another number, mps")
