"""Mutual exclusion between the conductor and a part of the driver that has a thread of its own."""

from ordo.runtime.native.atomics cimport ordo_load_acquire_i32, ordo_store_release_i32, sched_yield

cdef extern from "<pthread.h>" nogil:
    int pthread_mutex_init(pthread_mutex_t* mutex, void* attributes)
    int pthread_mutex_destroy(pthread_mutex_t* mutex)
    int pthread_mutex_lock(pthread_mutex_t* mutex)
    int pthread_mutex_unlock(pthread_mutex_t* mutex)


cdef class Gate:

    def __cinit__(self):
        pthread_mutex_init(&self._mutex, NULL)

    def __dealloc__(self):
        pthread_mutex_destroy(&self._mutex)

    cdef void enter(self) noexcept nogil:
        while ordo_load_acquire_i32(&self._wanted):
            sched_yield()
        pthread_mutex_lock(&self._mutex)

    cdef void enter_first(self) noexcept nogil:
        ordo_store_release_i32(&self._wanted, 1)
        pthread_mutex_lock(&self._mutex)
        ordo_store_release_i32(&self._wanted, 0)

    cdef void leave(self) noexcept nogil:
        pthread_mutex_unlock(&self._mutex)
