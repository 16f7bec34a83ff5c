//! Under a service manager: sockets it passes, what it is told, what it asks for, restarts, and the units themselves.

mod activation;
mod notification;
mod reload;
mod restart;
mod units;
mod watchdog;
