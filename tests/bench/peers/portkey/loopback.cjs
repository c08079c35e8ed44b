// Portkey's gateway listens on every address of the machine and has no option for it; a benchmark must not.
// Loaded by tests/bench/peers/servers.py with node's --require.
const net = require('node:net');

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  const callbacks = rest.filter((argument) => typeof argument === 'function');
  return listen.call(this, port, '127.0.0.1', ...callbacks);
};
