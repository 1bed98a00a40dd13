# SPDX-License-Identifier: Apache-2.0
"""Tests of real processes over ipc sockets: supervisor, actors, replay, daserctl."""
