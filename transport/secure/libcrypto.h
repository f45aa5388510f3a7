/* OpenSSL's libcrypto, looked for when the program runs: neither a build nor a node without encryption needs it.

   Its functions are called through one table. RTLD_LOCAL keeps them apart from an OpenSSL that Python itself has. */
#ifndef ORDO_LIBCRYPTO_H
#define ORDO_LIBCRYPTO_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

enum { ORDO_TAG = 16, ORDO_GET_TAG = 0x10, ORDO_SET_TAG = 0x11, ORDO_X25519 = 1034 };

typedef struct {
    void *(*ctx_new)(void);
    void (*ctx_free)(void *);
    const void *(*aes_256_gcm)(void);
    const void *(*chacha20_poly1305)(void);
    int (*encrypt_init)(void *, const void *, void *, const unsigned char *, const unsigned char *);
    int (*encrypt_update)(void *, unsigned char *, int *, const unsigned char *, int);
    int (*encrypt_final)(void *, unsigned char *, int *);
    int (*decrypt_init)(void *, const void *, void *, const unsigned char *, const unsigned char *);
    int (*decrypt_update)(void *, unsigned char *, int *, const unsigned char *, int);
    int (*decrypt_final)(void *, unsigned char *, int *);
    int (*ctrl)(void *, int, int, void *);
    void *(*private_key)(int, void *, const unsigned char *, size_t);
    void *(*public_key)(int, void *, const unsigned char *, size_t);
    int (*raw_public)(const void *, unsigned char *, size_t *);
    void (*key_free)(void *);
    void *(*derive_new)(void *, void *);
    int (*derive_init)(void *);
    int (*derive_peer)(void *, void *);
    int (*derive)(void *, unsigned char *, size_t *);
    void (*derive_free)(void *);
    const void *(*sha256)(void);
    unsigned char *(*hmac)(const void *, const void *, int, const unsigned char *, size_t, unsigned char *,
                           unsigned int *);
} ordo_libcrypto;

static ordo_libcrypto ordo_lc;

/* 0 when every function is there, -1 without the library, -2 when it lacks one. */
static int ordo_lc_load(void) {
    static const char *const files[] = {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"};
    static const struct { void *slot; const char *name; } wanted[] = {
        {&ordo_lc.ctx_new, "EVP_CIPHER_CTX_new"},
        {&ordo_lc.ctx_free, "EVP_CIPHER_CTX_free"},
        {&ordo_lc.aes_256_gcm, "EVP_aes_256_gcm"},
        {&ordo_lc.chacha20_poly1305, "EVP_chacha20_poly1305"},
        {&ordo_lc.encrypt_init, "EVP_EncryptInit_ex"},
        {&ordo_lc.encrypt_update, "EVP_EncryptUpdate"},
        {&ordo_lc.encrypt_final, "EVP_EncryptFinal_ex"},
        {&ordo_lc.decrypt_init, "EVP_DecryptInit_ex"},
        {&ordo_lc.decrypt_update, "EVP_DecryptUpdate"},
        {&ordo_lc.decrypt_final, "EVP_DecryptFinal_ex"},
        {&ordo_lc.ctrl, "EVP_CIPHER_CTX_ctrl"},
        {&ordo_lc.private_key, "EVP_PKEY_new_raw_private_key"},
        {&ordo_lc.public_key, "EVP_PKEY_new_raw_public_key"},
        {&ordo_lc.raw_public, "EVP_PKEY_get_raw_public_key"},
        {&ordo_lc.key_free, "EVP_PKEY_free"},
        {&ordo_lc.derive_new, "EVP_PKEY_CTX_new"},
        {&ordo_lc.derive_init, "EVP_PKEY_derive_init"},
        {&ordo_lc.derive_peer, "EVP_PKEY_derive_set_peer"},
        {&ordo_lc.derive, "EVP_PKEY_derive"},
        {&ordo_lc.derive_free, "EVP_PKEY_CTX_free"},
        {&ordo_lc.sha256, "EVP_sha256"},
        {&ordo_lc.hmac, "HMAC"},
    };
    void *library = NULL, *found;
    size_t i;
    for (i = 0; i < sizeof(files) / sizeof(files[0]) && library == NULL; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return -1;
    for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        found = dlsym(library, wanted[i].name);
        if (found == NULL)
            return -2;
        memcpy(wanted[i].slot, &found, sizeof(found));
    }
    return 0;
}

/* Whether the processor has instructions for AES-GCM; ChaCha20-Poly1305 is the faster one where it has not. */
static int ordo_has_aes(void) {
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
    return (getauxval(AT_HWCAP) & (1 << 3)) != 0;
#else
    return 0;
#endif
}

static inline void ordo_nonce(uint8_t *nonce, uint64_t number, int is_big_endian) {
    int i;
    memset(nonce, 0, 4);
    for (i = 0; i < 8; i++)
        nonce[4 + i] = (uint8_t) (number >> (is_big_endian ? 56 - 8 * i : 8 * i));
}

/* length bytes of plain, sealed, and the tag behind them; 1, or 0 when libcrypto refuses. */
static inline int ordo_seal(void *ctx, const uint8_t *nonce, const uint8_t *ad, int ad_length, const uint8_t *plain,
                            int length, uint8_t *out) {
    int done = 0, last = 0;
    return ordo_lc.encrypt_init(ctx, NULL, NULL, NULL, nonce) == 1
        && (ad_length == 0 || ordo_lc.encrypt_update(ctx, NULL, &done, ad, ad_length) == 1)
        && ordo_lc.encrypt_update(ctx, out, &done, plain, length) == 1
        && ordo_lc.encrypt_final(ctx, out + length, &last) == 1
        && ordo_lc.ctrl(ctx, ORDO_GET_TAG, ORDO_TAG, out + length) == 1;
}

/* `length` counts the sealed bytes without their tag, which follows them; 1 when the tag is right. */
static inline int ordo_open(void *ctx, const uint8_t *nonce, const uint8_t *ad, int ad_length, const uint8_t *sealed,
                            int length, uint8_t *out) {
    int done = 0, last = 0;
    return ordo_lc.decrypt_init(ctx, NULL, NULL, NULL, nonce) == 1
        && ordo_lc.ctrl(ctx, ORDO_SET_TAG, ORDO_TAG, (void *) (sealed + length)) == 1
        && (ad_length == 0 || ordo_lc.decrypt_update(ctx, NULL, &done, ad, ad_length) == 1)
        && ordo_lc.decrypt_update(ctx, out, &done, sealed, length) == 1
        && ordo_lc.decrypt_final(ctx, out + length, &last) == 1;
}

/* A context with its key, nonces given later; NULL when libcrypto refuses. */
static void *ordo_cipher(int is_aes, int is_sealing, const uint8_t *key) {
    void *ctx = ordo_lc.ctx_new();
    const void *cipher = is_aes ? ordo_lc.aes_256_gcm() : ordo_lc.chacha20_poly1305();
    int ok;
    if (ctx == NULL)
        return NULL;
    ok = is_sealing ? ordo_lc.encrypt_init(ctx, cipher, NULL, key, NULL)
                    : ordo_lc.decrypt_init(ctx, cipher, NULL, key, NULL);
    if (ok != 1) {
        ordo_lc.ctx_free(ctx);
        return NULL;
    }
    return ctx;
}

/* The public key of a secret one: 1, or 0. */
static int ordo_x25519_public(const uint8_t *secret, uint8_t *public_bytes) {
    size_t length = 32;
    void *own = ordo_lc.private_key(ORDO_X25519, NULL, secret, 32);
    int ok = own != NULL && ordo_lc.raw_public(own, public_bytes, &length) == 1 && length == 32;
    if (own != NULL)
        ordo_lc.key_free(own);
    return ok;
}

/* What both sides compute: 1, or 0 for a public key that gives nothing (a point of low order). */
static int ordo_x25519(const uint8_t *secret, const uint8_t *other, uint8_t *shared) {
    size_t length = 32;
    void *own = ordo_lc.private_key(ORDO_X25519, NULL, secret, 32);
    void *peer = ordo_lc.public_key(ORDO_X25519, NULL, other, 32);
    void *ctx = own != NULL && peer != NULL ? ordo_lc.derive_new(own, NULL) : NULL;
    int ok = ctx != NULL && ordo_lc.derive_init(ctx) == 1 && ordo_lc.derive_peer(ctx, peer) == 1
        && ordo_lc.derive(ctx, shared, &length) == 1 && length == 32;
    if (ctx != NULL)
        ordo_lc.derive_free(ctx);
    if (peer != NULL)
        ordo_lc.key_free(peer);
    if (own != NULL)
        ordo_lc.key_free(own);
    return ok;
}

/* HMAC-SHA256, its first 16 bytes. */
static inline int ordo_mac16(const uint8_t *key, int key_length, const uint8_t *data, size_t length, uint8_t *out) {
    uint8_t whole[32];
    unsigned int whole_length = sizeof(whole);
    if (ordo_lc.hmac(ordo_lc.sha256(), key, key_length, data, length, whole, &whole_length) == NULL)
        return 0;
    memcpy(out, whole, 16);
    return 1;
}

/* Without telling by its time where two differ. */
static inline int ordo_equal16(const uint8_t *a, const uint8_t *b) {
    uint8_t differs = 0;
    int i;
    for (i = 0; i < 16; i++)
        differs |= a[i] ^ b[i];
    return differs == 0;
}

#endif
