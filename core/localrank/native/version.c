/* Which sources this library was built from: the version of the package and the digest of the sources. The build says
 * both, and localrank/native/library.py checks them. */
#include "native.h"

const char *localrank_version(void)
{
    return LOCALRANK_VERSION;
}
