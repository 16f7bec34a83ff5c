//! Under a service manager: sockets it passes, what it is told, what it asks for, restarts, logs that are moved away, and the units themselves.

mod activation;
mod notification;
mod reload;
mod restart;
mod rotation;
mod units;
mod watchdog;
