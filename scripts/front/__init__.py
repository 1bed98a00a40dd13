# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/daser: standard library only."""
