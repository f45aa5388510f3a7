/* What holds the namespaces of a pod: it waits until it is ended. */
#include <signal.h>
#include <unistd.h>

int main(void)
{
    signal(SIGTERM, _exit);
    for (;;)
        pause();
}
