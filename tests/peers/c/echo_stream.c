/* Sends every message of one stream back on another, as EchoStream.java does, with the driver of a folder: says
 * "ready", and images as they come and go. A line on its standard input makes it say "echoed N" and close its
 * publication, the end of the input makes it close the rest.
 *
 * Arguments: folder, channel and stream it reads, channel and stream it answers on, "exclusive" or "concurrent".
 */
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "aeronc.h"

#define OFFER_TIMEOUT_S 20
#define NAP_NS 200000

typedef struct
{
    aeron_publication_t *concurrent;
    aeron_exclusive_publication_t *exclusive;
    int64_t echoed;
} echo_t;

static void say(const char *format, ...)
{
    char line[512];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    printf("%s\n", line);
    fflush(stdout);
}

static void fail(const char *what)
{
    say("error %s: %s", what, aeron_errmsg());
    exit(1);
}

static void on_error(void *state, int code, const char *message)
{
    (void)state;
    say("error %d %s", code, message);
}

static void nap(void)
{
    struct timespec time = { 0, NAP_NS };
    nanosleep(&time, NULL);
}

static aeron_image_constants_t constants_of(aeron_image_t *image)
{
    aeron_image_constants_t constants;
    if (aeron_image_constants(image, &constants) < 0)
    {
        fail("image");
    }
    return constants;
}

static void on_image(void *state, aeron_subscription_t *subscription, aeron_image_t *image)
{
    aeron_image_constants_t constants = constants_of(image);
    (void)state;
    (void)subscription;
    say("image %d %s", constants.session_id, constants.source_identity);
}

static void on_image_gone(void *state, aeron_subscription_t *subscription, aeron_image_t *image)
{
    (void)state;
    (void)subscription;
    say("image-gone %d %s", constants_of(image).session_id, aeron_image_is_end_of_stream(image) ? "true" : "false");
}

static int64_t offer(echo_t *echo, const uint8_t *message, size_t length)
{
    return NULL != echo->exclusive ?
        aeron_exclusive_publication_offer(echo->exclusive, message, length, NULL, NULL) :
        aeron_publication_offer(echo->concurrent, message, length, NULL, NULL);
}

static void on_message(void *state, const uint8_t *message, size_t length, aeron_header_t *header)
{
    echo_t *echo = state;
    time_t deadline = time(NULL) + OFFER_TIMEOUT_S;
    int64_t result;
    (void)header;
    while ((result = offer(echo, message, length)) < 0)
    {
        if (AERON_PUBLICATION_CLOSED == result || AERON_PUBLICATION_ERROR == result || time(NULL) > deadline)
        {
            say("error offer gave %lld: %s", (long long)result, aeron_errmsg());
            exit(1);
        }
        nap();
    }
    echo->echoed++;
}

/* Whether there is a line, or the end of the input. */
static bool is_told(bool *ended)
{
    char byte;
    struct pollfd input = { STDIN_FILENO, POLLIN, 0 };
    while (!*ended && poll(&input, 1, 0) > 0)
    {
        *ended = read(STDIN_FILENO, &byte, 1) <= 0;
        if (*ended || '\n' == byte)
        {
            return true;
        }
    }
    return false;
}

static aeron_subscription_t *subscribe(aeron_t *client, const char *channel, int32_t stream_id)
{
    aeron_async_add_subscription_t *request;
    aeron_subscription_t *subscription = NULL;
    int done = 0;
    if (aeron_async_add_subscription(
        &request, client, channel, stream_id, on_image, NULL, on_image_gone, NULL) < 0)
    {
        fail("subscription");
    }
    while (0 == (done = aeron_async_add_subscription_poll(&subscription, request)))
    {
        nap();
    }
    if (done < 0)
    {
        fail("subscription");
    }
    return subscription;
}

static void publish(aeron_t *client, const char *channel, int32_t stream_id, bool exclusive, echo_t *echo)
{
    aeron_async_add_publication_t *request;
    int done = exclusive ?
        aeron_async_add_exclusive_publication(&request, client, channel, stream_id) :
        aeron_async_add_publication(&request, client, channel, stream_id);
    while (0 == done)
    {
        nap();
        done = exclusive ?
            aeron_async_add_exclusive_publication_poll(&echo->exclusive, request) :
            aeron_async_add_publication_poll(&echo->concurrent, request);
    }
    if (done < 0)
    {
        fail("publication");
    }
}

int main(int argc, char **argv)
{
    aeron_context_t *context;
    aeron_t *client;
    aeron_fragment_assembler_t *assembler;
    echo_t echo = { NULL, NULL, 0 };
    bool ended = false;
    if (argc != 7)
    {
        say("error it takes 6 arguments");
        return 2;
    }
    if (aeron_context_init(&context) < 0 ||
        aeron_context_set_dir(context, argv[1]) < 0 ||
        aeron_context_set_client_name(context, "c-echo") < 0 ||
        aeron_context_set_error_handler(context, on_error, NULL) < 0 ||
        aeron_init(&client, context) < 0 ||
        aeron_start(client) < 0)
    {
        fail("client");
    }
    aeron_subscription_t *subscription = subscribe(client, argv[2], atoi(argv[3]));
    publish(client, argv[4], atoi(argv[5]), 0 == strcmp("exclusive", argv[6]), &echo);
    if (aeron_fragment_assembler_create(&assembler, on_message, &echo) < 0)
    {
        fail("assembler");
    }
    say("ready");
    while (!is_told(&ended))
    {
        int fragments = aeron_subscription_poll(subscription, aeron_fragment_assembler_handler, assembler, 64);
        if (fragments < 0)
        {
            fail("poll");
        }
        if (0 == fragments)
        {
            nap();
        }
    }
    say("echoed %lld", (long long)echo.echoed);
    if (NULL != echo.exclusive)
    {
        aeron_exclusive_publication_close(echo.exclusive, NULL, NULL);
    }
    else
    {
        aeron_publication_close(echo.concurrent, NULL, NULL);
    }
    while (!ended)
    {
        is_told(&ended);
        nap();
    }
    aeron_subscription_close(subscription, NULL, NULL);
    aeron_fragment_assembler_delete(assembler);
    aeron_close(client);
    aeron_context_close(context);
    say("closed");
    return 0;
}
