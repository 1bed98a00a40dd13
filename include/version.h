/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of what two processes must agree on. docs/protocol.md and docs/shm-layout.md name them.
 */
#ifndef DSR_VERSION_H
#define DSR_VERSION_H

#define DSR_VERSION "0.1.0"

#define DSR_PROTOCOL_MAJOR 1 /* differs: refused in HELLO */
#define DSR_PROTOCOL_MINOR 0 /* peers use what both know */

#define DSR_LAYOUT_MAJOR 1 /* differs: attach refuses */
#define DSR_LAYOUT_MINOR 0 /* a reader needs at least its own */

#endif
