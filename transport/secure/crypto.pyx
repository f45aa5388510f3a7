"""What encryption needs of OpenSSL's libcrypto, which is loaded when the first key is used."""

from ordo.runtime.errors import ConfigurationError, DecodeError

cdef extern from "ordo/transport/secure/libcrypto.h" nogil:
    int ordo_lc_load()
    bint ordo_has_aes()
    void ordo_nonce(uint8_t* nonce, uint64_t number, bint is_big_endian)
    bint ordo_seal(void* ctx, const uint8_t* nonce, const uint8_t* ad, int ad_length, const uint8_t* plain, int length,
                   uint8_t* out)
    bint ordo_open(void* ctx, const uint8_t* nonce, const uint8_t* ad, int ad_length, const uint8_t* sealed, int length,
                   uint8_t* out)
    void* ordo_cipher(bint is_aes, bint is_sealing, const uint8_t* key)
    bint ordo_x25519_public(const uint8_t* secret, uint8_t* public_bytes)
    bint ordo_x25519(const uint8_t* secret, const uint8_t* other, uint8_t* shared)
    bint ordo_mac16(const uint8_t* key, int key_length, const uint8_t* data, size_t length, uint8_t* out)
    bint ordo_equal16(const uint8_t* a, const uint8_t* b)
    ctypedef struct ordo_libcrypto:
        void (*ctx_free)(void*)
    ordo_libcrypto ordo_lc

AES_256_GCM = SUITE_AES
CHACHA20_POLY1305 = SUITE_CHACHA
SUITE_NAMES = {SUITE_AES: "AESGCM", SUITE_CHACHA: "ChaChaPoly"}
cdef bint _is_loaded = False


def load():
    """Find libcrypto. Raises ConfigurationError in one line when the machine has none that is suitable."""
    global _is_loaded
    if _is_loaded:
        return
    if ordo_lc_load() != 0:
        raise ConfigurationError("encryption needs OpenSSL's libcrypto 1.1.1 or later, which is not there: install it "
                                 "(Debian and Ubuntu: libssl3; Fedora: openssl-libs)")
    _is_loaded = True


def preferred_suite():
    """Return AES-256-GCM where the processor has instructions for it, otherwise ChaCha20-Poly1305."""
    return SUITE_AES if ordo_has_aes() else SUITE_CHACHA


def _check_key(bytes key not None):
    if len(key) != KEY_LENGTH:
        raise ValueError(f"key of {len(key)} bytes, must be {KEY_LENGTH}")
    load()


def public_key(bytes secret):
    """Return the X25519 public key of a secret one."""
    cdef uint8_t found[KEY_LENGTH]
    _check_key(secret)
    if not ordo_x25519_public(<const uint8_t*> <const char*> secret, found):
        raise DecodeError("libcrypto gives no public key for this secret one")
    return (<char*> found)[:KEY_LENGTH]


def shared_secret(bytes secret, bytes other):
    """Return the X25519 shared secret. Raises DecodeError for a public key that would give anybody the result."""
    cdef uint8_t found[KEY_LENGTH]
    _check_key(secret)
    _check_key(other)
    if not ordo_x25519(<const uint8_t*> <const char*> secret, <const uint8_t*> <const char*> other, found):
        raise DecodeError("a public key of low order")
    return (<char*> found)[:KEY_LENGTH]


cdef bint mac16(const uint8_t* key, int key_length, const uint8_t* data, size_t length, uint8_t* out) noexcept nogil:
    return ordo_mac16(key, key_length, data, length, out)


cdef bint equal16(const uint8_t* a, const uint8_t* b) noexcept nogil:
    return ordo_equal16(a, b)


cdef class Aead:

    def __init__(self, int suite, bytes key not None, *, bint is_sealing):
        if suite not in SUITE_NAMES:
            raise ValueError(f"suite={suite}, must be one of {sorted(SUITE_NAMES)}")
        self._is_big_endian = suite == SUITE_AES
        self.is_sealing = is_sealing
        _check_key(key)
        self._context = ordo_cipher(suite == SUITE_AES, is_sealing, <const uint8_t*> <const char*> key)
        if self._context == NULL:
            raise ConfigurationError(f"libcrypto refuses {SUITE_NAMES[suite]}: use one that has it")

    def __dealloc__(self):
        if self._context != NULL:
            ordo_lc.ctx_free(self._context)

    cdef bint seal(self, uint64_t number, const uint8_t* ad, int ad_length, const uint8_t* plain, int length,
                   uint8_t* out) noexcept nogil:
        cdef uint8_t nonce[12]
        ordo_nonce(nonce, number, self._is_big_endian)
        return ordo_seal(self._context, nonce, ad, ad_length, plain, length, out)

    cdef bint open(self, uint64_t number, const uint8_t* ad, int ad_length, const uint8_t* sealed, int length,
                   uint8_t* out) noexcept nogil:
        cdef uint8_t nonce[12]
        ordo_nonce(nonce, number, self._is_big_endian)
        return ordo_open(self._context, nonce, ad, ad_length, sealed, length, out)

    def seal_bytes(self, uint64_t number, bytes ad, bytes plain):
        """Return sealed bytes and tag."""
        cdef bytearray out = bytearray(len(plain) + TAG_LENGTH)
        if not self.is_sealing or not self.seal(number, <const uint8_t*> <const char*> ad, len(ad),
                                                <const uint8_t*> <const char*> plain, len(plain), <uint8_t*> <char*> out):
            raise ValueError("this key does not seal")
        return bytes(out)

    def open_bytes(self, uint64_t number, bytes ad, bytes sealed):
        """Return the plain bytes of what was sealed. Raises DecodeError for anything else."""
        cdef bytearray out = bytearray(max(1, len(sealed)))
        cdef int length = len(sealed) - TAG_LENGTH
        if self.is_sealing or length < 0 or not self.open(
                number, <const uint8_t*> <const char*> ad, len(ad), <const uint8_t*> <const char*> sealed, length,
                <uint8_t*> <char*> out):
            raise DecodeError("not sealed with this key")
        return bytes(out[:length])
